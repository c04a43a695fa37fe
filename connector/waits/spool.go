package waits

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/observe"
)

// Spool is the wait for room in a spool that is full: for an import that is on its way, or for the file
// that goes next once its table has a slot. paused reports whether a person has paused a mapping's
// files; slot is how long its next import has to wait.
func Spool(bytes, limit int64, files []contract.MappingStatus, paused func(mapping string) bool, slot func(mapping string, imp *contract.Import, further bool) time.Duration) observe.Wait {
	w := observe.Wait{Cause: SpoolFull, Why: fmt.Sprintf("the spool takes %d bytes of spool.maxBytes %d; partitions are read again once an import has made room", bytes, limit)}
	next, wait := "", time.Duration(0)
	for _, st := range files {
		if im := st.Import; im != nil {
			if st.Halted == "" && im.Step != contract.Waiting && im.Step != contract.Paused {
				return w
			}
			continue
		}
		if st.Bytes == 0 || paused(st.Mapping) {
			continue
		}
		if needs := slot(st.Mapping, nil, false); next == "" || needs < wait {
			next, wait = st.Mapping, needs
		}
	}
	switch {
	case next == "":
		w.Why += ". None is on its way, and no file can go: see which mappings are halted or paused or wait for a slot (feedsink imports list), and whether files are kept in spool.dir"
	case wait <= 0:
		w.Why += ", which begins with what takes most of it, before it is due"
	default:
		w.Until = time.Now().Add(wait)
		w.Why += fmt.Sprintf(". None is on its way; the file of %s goes next, once its table has a slot; if one is kept in reserve, feedsink imports roll --mapping %s --reserve sends it now", next, next)
	}
	return w
}
