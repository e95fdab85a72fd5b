package wire

// MOutput: OutputRequest → Empty. A request with a body stores a command's whole output. The
// answer to a request without a body holds the output stored under ID.
const MOutput = "output"

// OutputRequest names one command's output.
type OutputRequest struct {
	Session string `json:"session,omitempty"` // session of the command; needed to store
	ID      string `json:"id"`
}
