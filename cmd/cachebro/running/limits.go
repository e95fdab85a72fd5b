package running

import (
	"fmt"

	"cachebro/store/leaf/limits"
)

// NetLimits says what the net of a watched command cannot do, one limit per line.
func NetLimits() string {
	return fmt.Sprintf(`  - it sees only what descends from this command, and no 32-bit programs;
  - set-uid programs (sudo, ping) do not get their rights, except for root:
    --allow-sudo runs the command without the net;
  - it is no jail: a second thread can change a path that is being looked at;
  - caches, what the client keeps of itself, and temporary files that the
    command makes are not kept, nor are files of more than %d MiB;
  - what a container or a daemon does for the command is not seen.
`, limits.Content>>20)
}
