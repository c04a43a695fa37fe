package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// ownerMovesAmidRefusals has the service refuse all calls while imports land, so
// that the calls that settle rows of both lanes wait, and moves tables meanwhile:
// a member ends in order and another one is lost.
func ownerMovesAmidRefusals(ctx context.Context, w *world) (err error) {
	refused := sandbox.Status(http.StatusServiceUnavailable)
	for op := 1; op <= 7; op++ {
		w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: op}, Answer: refused})
	}
	defer w.service.ClearFaults()
	first := w.rnd.IntN(len(w.members))
	second := (first + 1) % len(w.members)
	if err := rest(ctx, 5*time.Second); err != nil {
		return err
	}
	if err := w.members[first].terminate(); err != nil {
		return err
	}
	w.members[second].kill()
	err = rest(ctx, sessionTimeout) // until the one that is left has the tables
	w.service.ClearFaults()
	// What has waited goes out; then the tables move back.
	return errors.Join(err, rest(ctx, 2*time.Second), w.members[first].start(ctx), w.members[second].start(ctx))
}

// gatewayPages puts a gateway before the service that answers some calls itself:
// nothing is there, all is well, try later.
func gatewayPages(ctx context.Context, w *world) error {
	for _, status := range []int{http.StatusNotFound, http.StatusOK, http.StatusBadGateway, http.StatusMethodNotAllowed} {
		w.service.Inject(sandbox.Fault{Match: sandbox.Match{Probability: 0.3}, Answer: sandbox.Page(status)})
	}
	defer w.service.ClearFaults()
	return rest(ctx, 5*time.Second)
}

// createAnswersLost has creates carried out and not answered, by calls and in
// files, and loses a member meanwhile: what is sent again finds its own rows.
func createAnswersLost(ctx context.Context, w *world) error {
	w.service.Inject(
		sandbox.Fault{Match: sandbox.Match{Op: 4, Probability: 0.3}, Apply: true, Answer: sandbox.Reset()},
		sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "invoices", Probability: 0.5}, Apply: true, Answer: sandbox.Reset()},
	)
	defer w.service.ClearFaults()
	err := rest(ctx, 2*time.Second)
	if err == nil {
		err = killed(ctx, w)
	}
	return errors.Join(err, rest(ctx, 3*time.Second))
}
