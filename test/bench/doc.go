// Command bench measures what the sink costs beside the least that the same job
// can cost: go run ./test/bench, or make bench.
//
// Broker (kfake), service, sink and floor are processes of their own, all of
// them this binary started again in a role, on loopback. So the CPU time and
// the memory of each are its own, read from the operating system.
//
// A line of the table is one job done twice: by the sink, as `feedsink run`
// builds it, and by its floor, a bare loop with nothing but what the job can't
// do without. Floor and sink alternate, and every repetition takes its ratio
// from the two that ran side by side: the machine drifts, a ratio hardly does.
// Shown are medians, with the spread of the ratio. Each run has a service of
// its own, and each of the sink's a consumer group of its own; the topic is
// filled before.
//
//   - Immediate lane: every event has a key of its own, so that nothing can be
//     merged and each event is one call. The floor is net/http with as many
//     workers as the sink may have calls in flight, sending bodies of the same
//     length to the same server. A run counts from one tenth of the calls to 95 %
//     of them, so that neither the start nor the last stragglers are in it; it
//     ends when the sink has committed every offset, and fails if the service did
//     not get exactly one call for each event, of the floor's length.
//   - Batch lane: events of half a million keys in random order, and of fifty
//     thousand, where a row stands for two events and more. What counts is
//     committed offsets, from the commit after the first import to one after a
//     later import; the topic goes on behind it, so that at both ends a file is
//     open and another on its way. Time and CPU from filling the file to its
//     commit are all in. The floor consumes the topic, decodes each event into a
//     struct and writes CSV through gzip at the same level to nowhere. It neither
//     compacts, nor checks, nor uploads.
//     The same from Avro, of flat events that are mapped, behind a registry.
//   - Decode, route, map: what a lane does with a record before anything is sent,
//     for each format, of flat events in names of their own. A write of the
//     immediate lane outlives its record, one of the batch lane does not. The
//     floor decodes the same bytes into a struct, with the library alone, and
//     looks at nothing. Both run in one goroutine, over a thousand events again
//     and again.
//
// Beside the CPU time stands how often the process allocates on the heap for an
// event or call.
//
// Scenarios are what is no job done twice, or not to be told in a line. Each is
// repeated as a line is: its figures are medians, with the lowest and the highest
// behind them.
//
//   - Hot keys: what waits for its turn is merged, and every key ends in its last
//     state, every time.
//   - Latency: from Produce to the service's answer, which confirms the write, at an
//     even 500 events a second. Its floor consumes with a client as it comes and makes
//     a call for each record at once, in a goroutine of its own; it keeps no order and
//     commits nothing. Both sides get a topic and a service of their own. The goal is
//     in milliseconds; what the machine itself makes of them is seen from the floor.
//   - Slow-down: the service goes from 5 ms to 500 ms and back, and in each phase the
//     sink is held against the best fixed number of calls in flight: that of a bare
//     net/http loop with 8, 16 or 32 workers, each alone, of 5 ms before and after
//     the sink. The best is one number for all repetitions: the best of each would be
//     the luckiest. The sink may have 32 calls in flight. Beside the rates stands how
//     many calls the service had at once, which is what the sink decides.
//
// A virtual machine gets its processors from a host that may give them to others, and
// what it takes changes from one second to the next: even a ratio of two that ran one
// after the other then says little. Linux counts it. A repetition from which the host
// took more than a twentieth is run again, until three are calm or six were run, and
// the three from which it took least count: that is all that decides. Beside the
// figures stands how many were run and what the host took of those that count, below
// them what it took of all.
//
// Asked for by a flag, instead of all that: -growth measures CPU and memory at
// backlogs up to 50 million, of a topic that the broker makes seem so long, the
// immediate lane's few seconds at each nine times there and back;
// -compare has the immediate lane's job done by loops as a team would write them, in
// Go and in Node with kafkajs, and by Apache Camel, another sink, which needs only a
// route; and the batch lane's files written by its floor and by Camel. Each rival
// does no more than it says in its name, and its calls have the length of the
// sink's. One that the machine cannot run, without Node.js or without Java and
// Maven, stands there as not measured; -soak loads both lanes for 45 minutes and
// judges whether memory, goroutines, files and disk stay flat. Ten million distinct
// keys in one file are make test-memory.
//
// -write puts what was measured into RESULTS.md, beside what earlier runs have
// put there.
//
// The service is not connector/dev/sandbox, which checks and stores what it gets and
// would be what is measured. It reads the whole request, waits for its latency
// and says yes: to the token call, to operations 1 and 4, and to 10 and 11, where
// every import has FINISHED when first asked.
//
// The sink runs with its defaults, except: calls in flight start at their
// maximum, but for latency and slow-down, offsets are committed five times a second, and a running import is
// asked for its result after 50 ms.
//
// The bench knows how to start a sink and what goes in and out of it. It knows
// nothing of what happens inside; -profile asks the runtime.
package main
