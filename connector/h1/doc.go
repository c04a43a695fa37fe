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
// consumes. Beside a bare net/http loop, where the service answers at once, it had
// (medians of seven interleaved runs of bench -quick, 40,000 calls each):
//
//	                         rate   CPU
//	this package             1.38   0.80
//	fasthttp 1.77, adapted   1.39   0.84
//	net/http alone           0.73   1.35   (goals: 0.85 and 1.35)
//
// fasthttp's HostClient knows neither contexts nor HTTP/2. As it is, it takes what a
// server sent too much for the next call's answer, sends to a connection that the
// server has closed, after which a create's outcome is unknown, and a streamed answer
// in chunks that was cut off counts as whole. Adapted, it needs nearly all that is
// here and the conversion of messages besides.
//
// It knows nothing of what is called.
package h1
