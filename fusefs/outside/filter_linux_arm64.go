package outside

var olderTimes []uint32
