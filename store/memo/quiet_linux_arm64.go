package memo

// olderQuiet: see quiet.
var olderQuiet []uint32
