// Package h1 makes HTTP/1.1 calls with short bodies in the goroutine of the caller.
//
// net/http keeps two goroutines for each connection, one that writes and one that
// reads, so that an answer may come before the request is out. A body that fits
// into the socket's buffer needs neither: it is written, and then the answer is
// read. Messages are still written and parsed by net/http ([http.Request.Write],
// [http.ReadResponse]); this package has the connections.
//
// What is not such a call goes to net/http: HTTP/2 where a server offers it, which
// its first answer over TLS tells, calls through a proxy, long bodies and those that
// ask before they are sent.
//
// # Why it is here
//
// The immediate lane has to be ahead of a plain loop that only forwards what it
// consumes. With a service that answers at once, 64 calls in flight, it had (medians
// of thirteen interleaved runs of 40,000 calls, test/bench -quick, on a machine with
// other work; ratios are to a bare net/http loop in the same run):
//
//	                         CPU-s per million   CPU    rate
//	this package                            30   0.85   1.45
//	fasthttp 1.77, adapted                  29   0.84   1.26
//	net/http alone                          49   1.38   0.73
//	goal                                         1.35   0.85
//
// fasthttp's HostClient knows neither contexts nor HTTP/2. By itself it takes bytes
// that a server sent too many for the next call's answer; it sends to a connection
// that the server has closed, and then the outcome of a create is unknown; and of a
// streamed answer in chunks it does not notice that the end is missing. Adapted, it
// needs nearly all that is here and a conversion of requests and answers besides.
//
// It knows nothing of what is called.
package h1
