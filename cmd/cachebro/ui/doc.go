// Package ui serves the history as pages to one person's browser. It stands at the
// serve end of observe → version → index → serve, as the command line does, and asks
// the daemon the same questions over its socket: it holds no history itself.
//
// The process listens on 127.0.0.1 only and ends with its command, or when the project
// or its state is gone. What it gives out is the whole history of a project, so it
// trusts nobody who merely reaches the port: see guard. Pages are made by html/template,
// which escapes all that comes from the project; names and contents pass visible and
// line as well, so that controls and marks that reverse text can be seen. Nothing is
// loaded from elsewhere: htmx, the style and the lexers are embedded.
//
// A page asks for its parts with htmx, and hears of changes over server-sent events
// while it is to be seen. Everything that changes a file is a plan of the daemon, shown
// first, and carried out by the code that the command line uses.
package ui
