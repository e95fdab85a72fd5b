// Package past is cachebro at: the past of a project as files.
package past
