package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { storyPrograms["confined"] = confined }

// confined is the program "confined DIR… -- COMMAND…". It restricts itself with Landlock, as the
// sandboxes of clients do, and then executes COMMAND, which can change files only below the given
// directories.
func confined() {
	err := confine()
	fmt.Fprintln(os.Stderr, "confined:", err)
	os.Exit(125)
}

func confine() error {
	end := slices.Index(os.Args, "--")
	if end < 0 || end+1 == len(os.Args) {
		return fmt.Errorf("usage: confined DIR… -- COMMAND…")
	}
	const changes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rules := unix.LandlockRulesetAttr{Handled_access_fs: changes}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), 8, 0)
	if errno != 0 {
		return fmt.Errorf("make a ruleset: %w", errno)
	}
	for _, dir := range append([]string{"/dev"}, os.Args[1:end]...) {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: changes, Parent_fd: int32(fd)}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("allow %s: %w", dir, errno)
		}
	}
	runtime.LockOSThread() // only this thread is restricted, and it executes the command
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("restrict: %w", errno)
	}
	path, err := exec.LookPath(os.Args[end+1])
	if err != nil {
		return err
	}
	return syscall.Exec(path, os.Args[end+1:], os.Environ())
}
