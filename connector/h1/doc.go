// Package h1 makes HTTP/1.1 calls with short bodies in the goroutine of the caller.
//
// net/http keeps two goroutines for each connection, one that writes and one that
// reads, so that an answer may come before the request is out. A body that fits
// into the socket's buffer needs neither: it is written, and then the answer is
// read. Messages are still written and parsed by net/http ([http.Request.Write],
// [http.ReadResponse]); this package has the connections.
//
// What is not such a call goes to net/http: HTTP/2 where a peer has chosen it, calls
// through a proxy, long bodies and those that ask before they are sent.
//
// It knows nothing of what is called.
package h1
