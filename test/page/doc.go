// Package page holds the tests of the status page in a real browser: headless
// Chromium looks at the page of a running sink, uses it by keyboard, and axe
// judges whether everybody can read it.
//
// It knows what a reader sees. It knows nothing of how the page is made.
package page
