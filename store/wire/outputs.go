package wire

// MOutput: OutputRequest → Empty. With a body it is a command's whole output, to be
// kept; without, the answer's body is what is kept under ID.
const MOutput = "output"

// OutputRequest names one command's output.
type OutputRequest struct {
	Session string `json:"session,omitempty"` // whose; needed to keep
	ID      string `json:"id"`
}
