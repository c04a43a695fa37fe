package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// AWS gives keys from where AWS's own tools look, in their order: the environment
// (AWS_ACCESS_KEY_ID and the like), a web identity token as EKS mounts one (IRSA),
// the shared credentials file, and the agent that EKS Pod Identity and ECS name.
// The role of the machine is not among them: it is everybody's on it. It may be
// used concurrently.
type AWS struct {
	http *http.Client

	lock lock // guards what follows
	last keys
	got  time.Time
}

// keys are what requests to AWS are signed with.
type keys struct {
	access, secret, session string
	ends                    time.Time // zero: never
}

const askTimeout = 10 * time.Second // of a request for keys

// NewAWS asks for nothing yet.
func NewAWS() *AWS {
	return &AWS{lock: newLock(), http: &http.Client{
		Timeout:       askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get are keys that are good for a while; session is "" for keys that do not
// end. Those that do are kept until a fifth of their life is left; others are
// looked up each time, so that a changed file is taken up. One attempt is made.
func (a *AWS) Get(ctx context.Context) (access, secret, session string, err error) {
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return "", "", "", ctx.Err()
	}
	now := time.Now()
	if a.last.ends.IsZero() || due(a.got, a.last.ends, now) {
		found, err := a.look(ctx)
		switch {
		case err == nil:
			if !found.ends.IsZero() { // AWS tells a time of the day: from here on both clocks know it
				found.ends = now.Add(found.ends.Sub(now))
			}
			a.last, a.got = found, now
		case past(a.last.ends, now):
			return "", "", "", fmt.Errorf("AWS credentials: %w", err)
		}
	}
	return a.last.access, a.last.secret, a.last.session, nil
}

var errNowhere = errors.New("none found: neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, nor AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, nor a shared credentials file, nor AWS_CONTAINER_CREDENTIALS_FULL_URI are there")

func (a *AWS) look(ctx context.Context) (keys, error) {
	found := keys{access: os.Getenv("AWS_ACCESS_KEY_ID"), secret: os.Getenv("AWS_SECRET_ACCESS_KEY"), session: os.Getenv("AWS_SESSION_TOKEN")}
	if found.access != "" && found.secret != "" {
		return found, nil
	}
	if file, role := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_ROLE_ARN"); file != "" && role != "" {
		return a.assume(ctx, file, role)
	}
	found, err := shared(sharedFile(), cmp.Or(os.Getenv("AWS_PROFILE"), "default"))
	if !errors.Is(err, os.ErrNotExist) {
		return found, err
	}
	if agent := agent(); agent != "" {
		return a.ask(ctx, agent)
	}
	return keys{}, errNowhere
}
