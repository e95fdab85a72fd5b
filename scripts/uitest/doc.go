// Package uitest drives the pages of cachebro ui in a real Chromium. Its tests need the build tag
// uitest and two environment variables, CACHEBRO_BIN and AXE (the script file of axe-core). "make
// ui-test" runs them. If SHOTS names a directory, the tests save a picture of each page there, in
// light and dark.
package uitest
