package ops

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestErrorsOfTheReceiptsTopicSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{kerr.UnknownTopicOrPartition, "create the topic, or correct receipts.topic"},
		{kerr.TopicAuthorizationFailed, "grant the login READ and DESCRIBE on the topic feedsink.receipts"},
		{context.DeadlineExceeded, "nothing answers in time; check address and port, and firewalls and network policies in between"},
		{io.EOF, "the broker closed the connection, as some do with a login or certificate that they refuse; check kafka.sasl and kafka.tls"},
	} {
		if got := receiptsAdvice("feedsink.receipts", fmt.Errorf("start of [feedsink.receipts]: %w", c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
