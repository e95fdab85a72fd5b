// Package uitest drives the pages of cachebro ui in a real Chromium. Its tests need the
// build tag uitest; make ui-test runs them, with CACHEBRO_BIN, and AXE, the file of
// axe-core's script. With SHOTS, a directory, they keep pictures of each page there,
// light and dark.
package uitest
