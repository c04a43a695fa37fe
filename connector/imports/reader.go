package imports

import (
	"context"
	"errors"

	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Reader reads records from Kafka once more. Routing is a pure function of record and
// configuration, so that their writes are those of the first time.
type Reader struct {
	Source  *kafka.Source
	Router  *router.Router
	Writers *schemas.Registry // nil: no mapping needs one
}

// EveryRecord is what Read wants where none is left out.
func EveryRecord(int, *kafka.Record) bool { return true }

// Read calls each with the writes of every record in the stretches that is wanted, i being
// the stretch's index. What cannot be decoded has never been a write, and is left out. The
// writes are for that call only.
func (a Reader) Read(ctx context.Context, stretches []cluster.Stretch, wanted func(i int, r *kafka.Record) bool,
	each func(i int, r *kafka.Record, writes []router.Routed) error,
) error {
	reader := decode.NewReader(a.Router, a.Writers) // the lane's own decoders are at work
	decode := decode.WaitForSchemas(ctx, a.Writers, reader.Decode)
	var routed []router.Routed
	return a.Source.Reread(ctx, stretches, func(i int, r *kafka.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !wanted(i, r) {
			return nil
		}
		decoded, err := decode(r)
		if errors.Is(err, schemas.ErrSchemaUnavailable) {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		routed = router.WithoutSkipped(a.Router.Route(routed[:0], decoded))
		return each(i, r, routed)
	})
}
