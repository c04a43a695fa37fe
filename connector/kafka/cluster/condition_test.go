package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// TestCommitThatFailsWhileTheGroupSharesItsPartitionsIsNoCondition: nor one that fails for less
// than a session.
func TestCommitThatFailsWhileTheGroupSharesItsPartitionsIsNoCondition(t *testing.T) {
	const session = 45 * time.Second
	refused := errors.Join(nil, errors.Join(fmt.Errorf("commit a[0] at 5: %w", kerr.NotCoordinator), fmt.Errorf("commit a[1] at 9: %w", kerr.NotCoordinator)))
	for name, c := range map[string]struct {
		errs []error // one each ten seconds
		told string
	}{
		"the group shares its partitions": {[]error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.RebalanceInProgress, kerr.RebalanceInProgress}, ""},
		"for less than a session":         {[]error{refused, context.DeadlineExceeded, refused, kerr.RebalanceInProgress, refused}, ""},
		"with one in between":             {[]error{refused, refused, refused, nil, refused, refused, refused}, ""},
		"for a session":                   {[]error{refused, refused, kerr.RebalanceInProgress, refused, refused, refused}, ": commit a[0] at 5: NOT_COORDINATOR"},
		"until one was made":              {[]error{refused, refused, refused, refused, refused, refused, nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conditions cluster.Conditions
				for i, err := range c.errs {
					if i > 0 {
						time.Sleep(10 * time.Second) // virtual
					}
					if got := conditions.NotCommitted(err); got != (err != nil) {
						t.Errorf("%v: got failed %v", err, got)
					}
				}
				got := conditions.All(true, "feedsink", nil, session)
				if c.told == "" && len(got) > 0 || c.told != "" && (len(got) != 1 || !strings.Contains(got[0].Why, c.told) || strings.Contains(got[0].Why, "\n")) {
					t.Errorf("got %+v, want %q", got, c.told)
				}
			})
		})
	}
}
