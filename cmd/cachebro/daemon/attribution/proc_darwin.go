package attribution

func OpenProcess(int) int { return -1 }
func Ended(int) bool      { return false }
