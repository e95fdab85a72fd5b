// Package ui serves the history as pages to one person's browser. Like the command line it is
// at the serve end of observe → version → index → serve: it asks the daemon the same questions
// over its socket and holds no history itself.
//
// The process listens on 127.0.0.1 only. It ends with its command, or when the project or its
// state is gone. It gives out the whole history of a project, so it trusts nobody who merely
// reaches the port: see guard. Pages are made by html/template, which escapes everything from
// the project. Names and contents also pass through visible and line, which make controls and
// marks that reverse text visible. Nothing is loaded from elsewhere: htmx, the style and the
// lexers are embedded.
//
// A page asks for its parts with htmx, and hears of changes over server-sent events while it is
// visible. Whatever changes a file is a plan of the daemon: it is shown first, and then carried
// out by the code that the command line uses.
package ui
