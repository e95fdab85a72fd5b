package memo

// olderQuiet lists quiet calls that only this architecture has; see quiet.
var olderQuiet []uint32
