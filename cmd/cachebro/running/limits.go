package running

import (
	"fmt"

	"cachebro/store/leaf/limits"
)

// netLimits returns the limits of the net, the recorder of cachebro run, one list item each.
func netLimits() string {
	return fmt.Sprintf(`  - it watches only the command and its descendants, and no 32-bit programs;
  - set-uid programs (sudo, ping) get no special rights, unless root runs them;
    --allow-sudo runs the command without the net;
  - it is not a sandbox: another thread can change a path during the check;
  - it does not save caches, the client's own files, temporary files that the
    command creates, or files of more than %d MiB;
  - it does not see what a container or a daemon does on behalf of the command.
`, limits.Content>>20)
}
