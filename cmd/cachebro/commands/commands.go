// Package commands builds the tree of all commands, which its sibling packages define. Each command
// is a *cobra.Command. The error that it returns decides the exit status: 0 for nil, 2 for a
// mistake on the command line, the child's status for run, and 1 for any other error. Errors are
// printed to stderr as "cachebro: …" and "hint: …".
package commands

import (
	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"
	"cachebro/cmd/cachebro/fork"
	"cachebro/cmd/cachebro/history"
	"cachebro/cmd/cachebro/knowledge"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/cmd/cachebro/running"
	"cachebro/cmd/cachebro/setup"
	"cachebro/cmd/cachebro/storage"
	"cachebro/cmd/cachebro/ui"

	"github.com/spf13/cobra"
)

// Root builds the tree of commands. The main help page describes each command that is in a group,
// and lists only the names of the others.
func Root(e *cli.Env) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := e.Group(&cobra.Command{
		Use:   "cachebro COMMAND",
		Short: "records every version of every file while you and your agents work",
		Long: `Shows an agent only what it has not seen yet, and undoes what anybody changed.

  cachebro up               watch this project and set up your agents
  cachebro run -- claude    mount if needed and start an agent in it
  cachebro down             stop that again; the history stays`,
		Version: cli.Version,
	})
	root.PersistentFlags().String("dir", "", "work as if started in this `DIR`")
	root.AddGroup(&cobra.Group{ID: "everyday", Title: "Everyday"}, &cobra.Group{ID: "groups", Title: "Groups of commands"})
	for _, c := range []*cobra.Command{
		running.RunCommand(e), setup.UpCommand(e), setup.DownCommand(e), doctor.StatusCommand(e),
		history.LogCommand(e), history.ShowCommand(e), history.DiffCommand(e), history.BlameCommand(e), knowledge.SearchCommand(e),
		history.UndoCommand(e), history.RedoCommand(e), history.RestoreCommand(e), mounting.AtCommand(e), fork.Command(e), ui.Command(e), doctor.DoctorCommand(e),
	} {
		c.GroupID = "everyday"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{
		e.Group(&cobra.Command{Use: "store", Short: "check, shrink, export or import the stored history"},
			storage.PruneCommand(e), storage.DuCommand(e), storage.FsckCommand(e), storage.PurgeCommand(e), storage.ExportCommand(e), storage.ImportCommand(e), knowledge.ReindexCommand(e), knowledge.IndexCommand(e)),
		storage.RemoteCommand(e), history.GitCommand(e),
		e.Group(&cobra.Command{Use: "docs", Short: "documentation checks, notes, and files that belong together"},
			knowledge.CheckCommand(e), knowledge.MarkCommand(e), knowledge.ContextCommand(e), knowledge.NoteCommand(e)),
	} {
		c.GroupID = "groups"
		root.AddCommand(c)
	}
	root.AddCommand(
		mounting.MountCommand(e), mounting.UmountCommand(e), mounting.RelocateCommand(e), setup.InitCommand(e), setup.UninitCommand(e), setup.UpgradeCommand(e), setup.UninstallCommand(e),
		history.RevertCommand(e), mounting.LabelCommand(e), knowledge.WorkingSetCommand(e), knowledge.MemoCommand(e), knowledge.MetricsCommand(e), versionCommand(e),
	)
	for _, c := range []*cobra.Command{
		serveCommand(e), hookCommand(e), fsmonitorCommand(e), statusLineCommand(e), knowledge.ReadCommand(e), knowledge.OutputCommand(e),
		mounting.SuperviseCommand(e), mounting.MountdCommand(e), mounting.ServePastCommand(e), storage.DaemonCommand(e), running.PrivateCommand(e), running.NetCommand(e), knowledge.TracedCommand(e),
	} {
		c.Hidden = true
		root.AddCommand(c)
	}
	completeValues(e, root)
	return root
}
