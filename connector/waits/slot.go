package waits

import (
	"cmp"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
)

// ForSlot is how long a mapping's file waits for nothing but a slot; 0: it does not. slot is how
// long its next import has to wait, as a further try or not.
func ForSlot(st contract.MappingStatus, slot func(mapping string, imp *contract.Import, further bool) time.Duration) time.Duration {
	switch {
	case st.Halted != "":
	case st.Import != nil && st.Import.Step == contract.Waiting:
		// Where a further try could go, it is none: a file that continues another one, say.
		// The service's day may end later than ours.
		return max(cmp.Or(slot(st.Mapping, &st.Import.Import, true), slot(st.Mapping, &st.Import.Import, false)), time.Until(st.Import.Again), time.Second)
	case st.Import == nil && st.Due:
		return slot(st.Mapping, nil, false)
	}
	return 0
}
