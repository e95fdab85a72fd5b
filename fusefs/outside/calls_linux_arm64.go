package outside

// There are no such calls here.
const (
	sysRmdir  = -1
	sysLchown = -1
)
