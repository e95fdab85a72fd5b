package outside

// These system calls do not exist on this architecture.
const (
	sysRmdir  = -1
	sysLchown = -1
)
