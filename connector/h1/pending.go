package h1

// state is what there is to read from a connection.
type state int

const (
	unknown state = iota // the system does not tell
	nothing
	bytes
	end // or an error
)
