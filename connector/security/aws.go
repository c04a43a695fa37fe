package security

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// AWS gives keys from where AWS's own tools look, in their order: the environment
// (AWS_ACCESS_KEY_ID and the like), a web identity token as EKS mounts one (IRSA),
// the shared credentials file, and the agent that EKS Pod Identity and ECS name.
// The role of the machine is not among them: it is everybody's on it. It may be
// used concurrently.
type AWS struct {
	http *http.Client
	kept kept[keys]
}

// keys are what requests to AWS are signed with.
type keys struct {
	access, secret, session string
	ends                    time.Time // zero: never
}

// NewAWS asks for nothing yet.
func NewAWS() *AWS {
	return &AWS{kept: newKept[keys](), http: &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get are keys that are good for a while; session is "" for keys that do not
// end, which are looked up each time, so that a changed file is taken up. One
// attempt is made.
func (a *AWS) Get(ctx context.Context) (access, secret, session string, err error) {
	k, err := a.kept.get(ctx, func(ctx context.Context) (keys, time.Time, error) {
		found, err := a.look(ctx)
		return found, found.ends, err
	})
	if err != nil {
		return "", "", "", fmt.Errorf("AWS credentials: %w", err)
	}
	return k.access, k.secret, k.session, nil
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

// assume exchanges a web identity token for keys of a role, at the Security
// Token Service of AWS_REGION. The request is not signed: the token is the proof.
func (a *AWS) assume(ctx context.Context, tokenFile, role string) (keys, error) {
	token, err := ReadFile(tokenFile, maxFile)
	if err != nil {
		return keys{}, err
	}
	endpoint := os.Getenv("AWS_ENDPOINT_URL_STS")
	if endpoint == "" {
		region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
		if !regionName.MatchString(region) {
			return keys{}, errors.New("AWS_REGION: must name the region whose token service is asked")
		}
		endpoint = "https://sts." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			endpoint += ".cn"
		}
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"},
		"RoleArn": {role}, "RoleSessionName": {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "feedsink")},
		"WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return keys{}, errors.New("AWS_ENDPOINT_URL_STS: not an address")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := a.send(r)
	if err != nil {
		return keys{}, fmt.Errorf("assume role %s: %w", role, err)
	}
	return assumed(answer)
}

var regionName = regexp.MustCompile(`^[a-z0-9-]+$`)

// assumed reads the answer to AssumeRoleWithWebIdentity.
func assumed(answer []byte) (keys, error) {
	var said struct {
		Keys struct {
			AccessKeyID     string    `xml:"AccessKeyId"`
			SecretAccessKey string    `xml:"SecretAccessKey"`
			SessionToken    string    `xml:"SessionToken"`
			Expiration      time.Time `xml:"Expiration"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if xml.Unmarshal(answer, &said) != nil { // its error may quote the answer
		return keys{}, errAnswer
	}
	return checked(keys{said.Keys.AccessKeyID, said.Keys.SecretAccessKey, said.Keys.SessionToken, said.Keys.Expiration})
}

// agent is the address of an agent beside the process that gives keys, "" for
// none.
func agent() string {
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		return "http://169.254.170.2" + path // what ECS promises
	}
	return os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
}

// ask gets keys from an agent. Over plain HTTP it is asked only at the addresses
// that ECS and EKS use, which lead nowhere else.
func (a *AWS) ask(ctx context.Context, agent string) (keys, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, agent, nil)
	if err != nil {
		return keys{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: not an address")
	}
	if r.URL.Scheme != "https" && !nearby(r.URL.Hostname()) {
		return keys{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or an address of this machine")
	}
	proof := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		held, err := ReadFile(file, maxFile)
		if err != nil {
			return keys{}, err
		}
		proof = string(held)
	}
	if proof = strings.TrimSpace(proof); proof != "" {
		r.Header.Set("Authorization", proof)
	}
	answer, err := a.send(r)
	if err != nil {
		return keys{}, fmt.Errorf("ask the agent at %s: %w", r.URL.Host, err)
	}
	return given(answer)
}

func nearby(host string) bool {
	if host == "localhost" || host == "169.254.170.2" || host == "169.254.170.23" || host == "fd00:ec2::23" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// given reads the answer of an agent.
func given(answer []byte) (keys, error) {
	var said struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		Expiration      time.Time
	}
	if json.Unmarshal(answer, &said) != nil { // its error may quote the answer
		return keys{}, errAnswer
	}
	return checked(keys{said.AccessKeyID, said.SecretAccessKey, said.Token, said.Expiration})
}

var errAnswer = errors.New("the answer holds no keys")

func checked(k keys) (keys, error) {
	if k.access == "" || k.secret == "" || k.session == "" || k.ends.IsZero() {
		return keys{}, errAnswer
	}
	return k, nil
}

// send returns the body of a 200. The body of anything else may repeat what was
// sent and is left out, but for the code that AWS gives.
func (a *AWS) send(r *http.Request) ([]byte, error) {
	response, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxFile))
	switch {
	case response.StatusCode != http.StatusOK:
		said := response.Status
		if found := code.FindSubmatch(answer); found != nil {
			said += ": " + string(found[1])
		}
		return nil, errors.New(said)
	case err != nil:
		return nil, err
	}
	return answer, nil
}

var code = regexp.MustCompile(`<Code>([A-Za-z]{1,64})</Code>`)

// sharedFile is where AWS's tools keep keys.
func sharedFile() string {
	if file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE"); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // no user whose file it could be
	}
	return filepath.Join(home, ".aws", "credentials")
}

// shared reads a profile's keys from a shared credentials file.
func shared(file, profile string) (keys, error) {
	text, err := ReadFile(file, maxFile)
	if err != nil {
		return keys{}, err
	}
	found, ok := section(string(text), profile)
	if !ok {
		return keys{}, fmt.Errorf("%s: there is no profile %q", file, profile)
	}
	if found.access == "" || found.secret == "" {
		return keys{}, fmt.Errorf("%s: profile %q lacks aws_access_key_id or aws_secret_access_key", file, profile)
	}
	return found, nil
}

// section reads one section of an INI file, and says whether it is there.
func section(text, name string) (found keys, ok bool) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			inside = strings.TrimSpace(line[1:len(line)-1]) == name
			ok = ok || inside
			continue
		}
		key, value, assigned := strings.Cut(line, "=")
		if !inside || !assigned || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id":
			found.access = value
		case "aws_secret_access_key":
			found.secret = value
		case "aws_session_token":
			found.session = value
		}
	}
	return found, ok
}
