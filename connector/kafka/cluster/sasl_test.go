package cluster_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// speaking is a broker that takes one mechanism, which the test answers for: the
// embedded broker does not know it.
func speaking(t *testing.T, mechanism string, takes func(said string) (answer string, ok bool)) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		response, _ := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if handshake, _ := r.(*kmsg.SASLHandshakeRequest); handshake.Mechanism != mechanism {
			response.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return response, nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		response, _ := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		said, _ := r.(*kmsg.SASLAuthenticateRequest)
		answer, ok := takes(string(said.SASLAuthBytes))
		if response.SASLAuthBytes = []byte(answer); !ok {
			response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		}
		return response, nil, true
	})
	return c.ListenAddrs()
}

func TestBrokerIsShownTheTokenOfNow(t *testing.T) {
	t.Parallel()
	brokers := speaking(t, "OAUTHBEARER", func(said string) (string, bool) {
		return "", said == "n,,\x01auth=Bearer new\x01logicalCluster=lkc-1\x01\x01"
	})
	var token atomic.Pointer[string]
	c := cluster.Connection{Brokers: brokers, SASL: &cluster.SASL{
		Mechanism: "OAUTHBEARER", Extensions: map[string]string{"logicalCluster": "lkc-1"},
		Token: func(context.Context) (string, error) { return *token.Load(), nil },
	}}
	for _, text := range []string{"old", "new"} {
		token.Store(&text)
		topics, err := ask(t, c)
		if taken := err == nil && topics["a"].Partitions == 3; taken != (text == "new") {
			t.Errorf("token %s: got %+v, %v, want it taken only if it is new", text, topics["a"], err)
		}
	}
}

func TestBrokerIsShownASignatureAndNoKey(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-3")
	var shown atomic.Pointer[string]
	brokers := speaking(t, "AWS_MSK_IAM", func(said string) (string, bool) {
		shown.Store(&said)
		return `{"version":"2020_10_22"}`, true
	})
	if _, err := ask(t, cluster.Connection{Brokers: brokers, SASL: &cluster.SASL{
		Mechanism: "AWS_MSK_IAM",
		Keys: func(context.Context) (access, secret, session string, err error) {
			return "AKIA", "the-secret-key", "the-session", nil
		},
	}}); err != nil {
		t.Fatal(err)
	}
	var said map[string]string
	if err := json.Unmarshal([]byte(*shown.Load()), &said); err != nil {
		t.Fatal(err)
	}
	if got := said["x-amz-credential"]; !strings.HasPrefix(got, "AKIA/") || !strings.Contains(got, "/eu-west-3/kafka-cluster/") {
		t.Errorf("credential: got %q, want the key's id, region and service", got)
	}
	if said["x-amz-security-token"] != "the-session" || len(said["x-amz-signature"]) != 64 || said["user-agent"] != "feedsink" {
		t.Errorf("got %v, want session, signature and who asks", said)
	}
	if strings.Contains(*shown.Load(), "the-secret-key") {
		t.Error("the secret key itself is shown")
	}
}
