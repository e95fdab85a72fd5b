package outside

// These calls do not exist on this architecture.
const (
	sysRmdir  = -1
	sysLchown = -1
)
