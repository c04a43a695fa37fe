package verify

import "github.com/feedsink/feedsink/connector/observe"

// Known is what is known of a profile table, whose rows no operation of the interface reads:
// whether the service has said yes to what the topics say.
type Known struct {
	DeadLetters map[string]int64 `json:"deadLetters"` // open ones of the mapping, by reason code: they are not in the table
	Unconfirmed map[string]int64 `json:"unconfirmed"` // records by lane; they are on their way
	// Imports are the results that the asked sink has seen today; nil: none was asked.
	Imports []observe.EndedImport `json:"imports,omitempty"`
}

// Fine reports whether nothing is known that keeps the table from saying what its topics say,
// once what is on its way has arrived. Of an import that failed nothing is confirmed.
func (k *Known) Fine() bool { return len(k.DeadLetters) == 0 }
