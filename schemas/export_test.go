package schemas

// For tests from outside: what f allocates, and what a record of a length may.
var (
	Costly  = costly
	Allowed = allowed
)
