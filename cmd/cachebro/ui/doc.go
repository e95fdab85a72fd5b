// Package ui serves the history as pages to one person's browser. Like the command line, it sends
// requests to the daemon over its socket and holds no history itself.
//
// The process listens on 127.0.0.1 only. It ends with its command, or when the project or its state
// directory is deleted. It gives access to the whole history of a project, so reaching the port is
// not enough to use it; see guard. Pages are made by html/template, which escapes everything from
// the project. Package visible (for names) and the function line (for contents) spell out control
// characters and marks that reverse text. The pages load nothing from other servers,
// because htmx, the style sheet and the lexers are embedded.
//
// A page requests its parts with htmx. While it is visible, it receives changes as server-sent
// events. Every change of files is a plan of the daemon. The page first shows the plan, and the
// same code as on the command line then carries it out.
package ui
