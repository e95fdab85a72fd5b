package wire

// MOutput takes an OutputRequest and returns Empty. A request with a body stores a command's whole
// output. A request without a body returns the output stored under ID in the answer's body.
const MOutput = "output"

// OutputRequest names one command's output.
type OutputRequest struct {
	Session string `json:"session,omitempty"` // session of the command; needed to store
	ID      string `json:"id"`
}
