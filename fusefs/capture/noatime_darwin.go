package capture

// noAtime: darwin has no such flag.
const noAtime = 0
