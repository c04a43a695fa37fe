// Command faults breaks a running sink in every way a cluster does and looks
// whether its promises held: go run ./test/faults, or make test-faults.
//
// Three `feedsink run` processes, each with a spool of its own, share a real
// Kafka with data on disk. The service is connector/dev/sandbox, in this process: what it
// saw and holds is what counts, not what the sink says. A seeded generator keeps
// both lanes busy and remembers what the tables must hold in the end.
//
// One fault after the other strikes while events come in. Then the generator
// pauses, everything catches up, and these are counted:
//
//   - lost: rows that are not what the generator's model says, broken events that
//     are not in the dead-letter topic, and records nobody had confirmed when
//     patience was over.
//   - reordered: writes that reached a key after a newer one. A member that was
//     just assigned the key's partition may begin where the last commit stood; so
//     may nobody else, least of all a member that lost it without noticing. In
//     the batch lane nothing excuses an older row.
//   - repeated: imports with a row that an import before them had loaded, of which
//     the ledger had the execution. One that is repeated because a fault fell
//     between its trigger and the commit of its execution is counted apart, as
//     cut: nothing can tell whether such a request arrived.
//   - slots over: imports that the service accepted and the ledger does not count.
//     Where slots are scarce each would be one more than the day has.
//   - both: events in the dead-letter topic that nothing was wrong with.
//   - strays: calls and triggers of a member that the group has given up, frozen
//     or cut off, before it was assigned anything again.
//
// A third of the customers change lanes from one event to the next, and now and
// then a fault strikes amid a roll-out of other routes of customers. What their
// rows hold in the end is judged, not the order of calls on the way there nor how
// often: the batch lane's owner sends the newest state of a row again when its
// file has landed. So is it with baskets, which both lanes upsert, patch and delete
// at random: a patch that finds nothing there is a dead letter or void. All other
// keys stay in one lane. Orders, tickets and invoices
// come by creates; a file of invoices waits for the customers, visits go in one
// bundle with prospects. Of these a key is deleted once at most, so that
// a second delete is known as a repetition, and a key that gets patches is never
// deleted: a patch that is sent again after a crash, its record gone meanwhile,
// meets the 404 of a mistake and cannot be told from one.
//
// "routes change" is about a second sink, whose lanes are processes of their own.
// They take random routes at different times while events come in: other
// conditions, everything in one lane, mappings that come, go, are renamed or read
// other topics, and former routes again. The immediate lane's way to the service
// is cut at times, and members are killed. The order of calls is not judged there,
// since a lane that takes new routes reads again what was confirmed under others:
// what the tables hold once all has caught up is, of every table that has a
// mapping then, and the dead letters are. A profile is never created by op create
// (nothing tells whose such a row is), and the table of copies, whose topic goes
// on being read without its mapping, is judged by the events since it had one.
//
// Where another tool takes offsets back, all that was loaded may be loaded again:
// what follows is judged as if nothing had been loaded.
//
// The members' binary is built with the tag movedclock, so that their time of day can
// be set: that is how midnight comes.
//
// The command knows the sink by its command line, its log and its metrics, and
// imports nothing of it.
package main
