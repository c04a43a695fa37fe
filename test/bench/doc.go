// Command bench measures what the sink costs beside the least that the same job
// can cost: go run ./test/bench, or make bench.
//
// What is measured, sink or floor, is a process of its own, this binary started again in
// a role, so that its CPU time and memory are read from the operating system. Broker
// (kfake) and service are in the bench itself, the same for both sides, on loopback.
//
// A line of the table is one job done twice: by the sink, as `feedsink run` builds it,
// and by its floor, a bare loop with nothing but what the job can't do without. Floor
// and sink alternate, and every repetition takes its ratio from the two that ran side by
// side: the machine drifts, a ratio hardly does. Shown are medians, with the spread of
// the ratio, and how often the process allocates on the heap for an event or call. Each
// run has a service and a consumer group of its own; the topic is filled before.
//
//   - Immediate lane: every event has a key of its own, so that nothing can be merged
//     and each is one call. The floor is a net/http loop with as many workers as the sink
//     may have calls in flight, sending bodies of the same length. A run fails if the
//     service did not get exactly one call for each event, of the floor's length.
//   - Batch lane: events of recurring keys in random order. What counts is committed
//     offsets, from the commit after the first import to one after a later import. The
//     floor consumes the topic, decodes each event into a struct and writes CSV through
//     gzip at the same level to nowhere. It neither compacts, nor checks, nor uploads.
//   - Decode, route, map: what a lane does with a record before anything is sent, in one
//     goroutine, over the same thousand events. The floor decodes them into a struct.
//
// Scenarios, repeated as lines are: hot keys (what waits for its turn is merged, and
// every key ends in its last state), latency (at an even 500 events a second, beside a
// loop that makes a call for each record at once), slow-down (a service that goes from
// 5 ms to 500 ms and back), receipts (what they cost), shares (urgent events beside bulk, of
// a service that takes few calls: a minute goes by in a second there), why (over ten
// million records), planning (days in virtual time). -growth, -compare and -soak are asked for instead of all that.
//
// A virtual machine gets its processors from a host that may give them to others: then
// even a ratio of two that ran one after the other says little. Linux counts it. A
// repetition from which the host took more than a twentieth is run again, until three
// are calm or six were run, and the three from which it took least count.
//
// But for shares, the service is not connector/dev/sandbox, which checks and stores what it gets
// and would be what is measured. The sink runs with its defaults, except: calls in flight start at
// their maximum, but for latency and slow-down, offsets are committed five times a
// second, and a running import is asked for its result after 50 ms. The bench knows how
// to start a sink and what goes in and out of it, and nothing of what happens inside;
// -profile asks the runtime.
package main
