package credentials

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// AWS gives keys from where AWS's own tools look: the environment, the shared
// credentials file, a web identity token (IRSA), EKS Pod Identity, the roles of
// tasks and instances, in their order. It may be used concurrently.
type AWS struct {
	lock lock // guards what follows
	last aws.Credentials
	got  time.Time
}

// NewAWS asks for nothing yet.
func NewAWS() *AWS { return &AWS{lock: newLock()} }

const keysTimeout = 20 * time.Second // to look in all places, some of them by HTTP

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
	if !a.last.CanExpire || due(a.got, a.last.Expires, now) {
		found, err := look(ctx)
		switch {
		case err == nil:
			a.last, a.got = found, now
		case !a.last.CanExpire || !now.Before(a.last.Expires):
			return "", "", "", fmt.Errorf("AWS credentials: %w", err)
		}
	}
	return a.last.AccessKeyID, a.last.SecretAccessKey, a.last.SessionToken, nil
}

func look(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	found, err := config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(2))
	if err != nil {
		return aws.Credentials{}, err
	}
	return found.Credentials.Retrieve(ctx)
}
