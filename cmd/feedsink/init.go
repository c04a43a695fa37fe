package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/setup"
	"github.com/feedsink/feedsink/connector/words"
)

func newInit() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init --brokers HOST:PORT --topic TOPIC",
		Short: "Look at topics and write a commented configuration to begin with",
		Long: "init reads the last records of each topic, outside of any consumer group, and writes a configuration for them:\n" +
			"canonical events, Debezium's and CloudEvents are recognised, of everything else fields, types, keys and ops are guessed.\n" +
			"A topic of several kinds of event becomes a mapping for each table. The lines with DECIDE are for you. Of the records'\n" +
			"values it holds nothing but words that many share: kinds of event, yes and no, tags. How it got in, TLS and SASL, is\n" +
			"written down too; passwords, client secrets and tokens stay in their files, and AWS's keys where AWS_MSK_IAM finds\n" +
			"them: environment variables, a web identity, the shared file or an agent.",
		Example: "  feedsink init --brokers kafka:9092 --topic crm.customers --out feedsink.yaml\n" +
			"  feedsink init --brokers kafka:9092 --topic crm.customers --topic shop.orders\n" +
			"  feedsink init --brokers kafka:9092 --topic crm.customers --registry http://registry:8081\n" +
			"  feedsink init --brokers kafka:9093 --tls --ca-file ca.pem --sasl SCRAM-SHA-512 --username feedsink \\\n" +
			"    --password-file kafka-password --topic shop.orders --custom-table orders\n" +
			"  feedsink init --brokers kafka:9093 --tls --sasl OAUTHBEARER --token-url https://login.example.com/oauth2/token \\\n" +
			"    --client-id feedsink --client-secret-file client-secret --scope kafka --topic shop.orders\n" +
			"  feedsink init --brokers b-1.example.kafka.eu-west-3.amazonaws.com:9098 --tls --sasl AWS_MSK_IAM --topic shop.orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.validate(); err != nil {
				return asUsage(err)
			}
			text, err := ops.Guess(cmd.Context(), flags.at, flags.topics, flags.limit)
			if err != nil {
				return asFlags(err)
			}
			if flags.out == "" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			if err := writeNew(flags.out, text); err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), next(flags.out, text))
			return err
		},
	}
	flags.register(cmd)
	return cmd
}

// mostLooked is how many records of a topic are held in memory to guess from.
const mostLooked = 10_000

// initFlags say where the topic is and what is known of its table.
type initFlags struct {
	at     setup.Place
	topics []string
	out    string
	limit  int64
}

func (f *initFlags) register(cmd *cobra.Command) {
	kafka, registry, flags := &f.at.Kafka, &f.at.Registry, cmd.Flags()
	flags.StringSliceVar(&kafka.Brokers, "brokers", nil, "brokers to ask, host:port")
	flags.BoolVar(&kafka.TLS.Enabled, "tls", false, "reach the brokers by TLS")
	flags.StringArrayVar(&kafka.SASL.OAuth.Extensions, "extension", nil, "OAUTHBEARER: name=value to send with the token, once for each")
	flags.BoolVar(&kafka.SASL.AllowPlaintext, "allow-plaintext", false, "send secrets without encryption, where the network is trusted")
	flags.Func("registry", "address of the schema registry, if values are written through one", func(given string) error {
		registry.URL = config.NewAddress(given)
		return nil
	})
	for _, text := range f.texts() {
		flags.StringVar(text.value, text.flag, "", text.usage)
	}
	flags.StringSliceVar(&f.topics, "topic", nil, "topic to look at; repeatable")
	flags.StringVar(&f.at.ProfileTable, "profile-table", "", "name of the profile table that all of the topic feeds")
	flags.StringVar(&f.at.CustomTable, "custom-table", "", "name of the custom table that all of the topic feeds")
	flags.StringVar(&f.out, "out", "", "file to write, which must not be there yet (default: standard output)")
	flags.Int64Var(&f.limit, "limit", 1000, fmt.Sprintf("how many records of each topic to look at, the last ones, at most %d", mostLooked))
}

// textFlag is a flag that stands for one text of the configuration.
type textFlag struct {
	key, flag string
	value     *string
	usage     string
}

func (f *initFlags) texts() []textFlag {
	kafka, oauth, registry := &f.at.Kafka, &f.at.Kafka.SASL.OAuth, &f.at.Registry
	return []textFlag{
		{"kafka.tls.caFile", "ca-file", &kafka.TLS.CAFile, "PEM file of the authorities that brokers' certificates are of (default: the system's)"},
		{"kafka.tls.certFile", "cert-file", &kafka.TLS.CertFile, "PEM file of the client's certificate"},
		{"kafka.tls.keyFile", "key-file", &kafka.TLS.KeyFile, "PEM file of its key"},
		{"kafka.sasl.mechanism", "sasl", &kafka.SASL.Mechanism, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM"},
		{"kafka.sasl.username", "username", &kafka.SASL.Username, "user at the brokers"},
		{"kafka.sasl.passwordFile", "password-file", &kafka.SASL.PasswordFile, "file with the password"},
		{"kafka.sasl.oauth.tokenURL", "token-url", &oauth.TokenURL, "OAUTHBEARER: where the OAuth 2.0 server gives tokens"},
		{"kafka.sasl.oauth.clientId", "client-id", &oauth.ClientID, "OAUTHBEARER: who asks for them"},
		{"kafka.sasl.oauth.clientSecretFile", "client-secret-file", &oauth.ClientSecretFile, "OAUTHBEARER: file with the client's secret"},
		{"kafka.sasl.oauth.scope", "scope", &oauth.Scope, "OAUTHBEARER: what to ask for, several with spaces between them"},
		{"kafka.sasl.oauth.tls.caFile", "token-ca-file", &oauth.TLS.CAFile, "OAUTHBEARER: PEM file of the authorities that the server's certificate is of (default: the system's)"},
		{"kafka.sasl.oauth.tokenFile", "token-file", &oauth.TokenFile, "OAUTHBEARER: file with a token that something else renews, instead of a server"},
		{"schemaRegistry.username", "registry-username", &registry.Username, "user at the schema registry"},
		{"schemaRegistry.passwordFile", "registry-password-file", &registry.PasswordFile, "file with the password"},
		{"schemaRegistry.tls.caFile", "registry-ca-file", &registry.TLS.CAFile, "PEM file of the authorities that its certificate is of (default: the system's)"},
	}
}

func (f *initFlags) validate() error {
	kafka, registry := f.at.Kafka, f.at.Registry
	switch at := f.at; {
	case len(kafka.Brokers) == 0:
		return errors.New("--brokers: name at least one broker, host:port")
	case len(f.topics) == 0 || slices.Contains(f.topics, ""):
		return errors.New("--topic: name the topic")
	case repeated(f.topics) != "":
		return fmt.Errorf("--topic: %s is named twice", repeated(f.topics))
	case len(f.topics) > 1 && at.ProfileTable+at.CustomTable != "":
		return errors.New("--profile-table, --custom-table: are for one topic; of several, change the tables' names in the file")
	case at.ProfileTable != "" && at.CustomTable != "":
		return errors.New("--profile-table, --custom-table: a topic is mapped to one table")
	case f.limit < 1 || f.limit > mostLooked:
		return fmt.Errorf("--limit: must be from 1 to %d", mostLooked)
	case !kafka.TLS.Enabled && kafka.TLS.CAFile+kafka.TLS.CertFile+kafka.TLS.KeyFile != "":
		return errors.New("--ca-file, --cert-file, --key-file: want --tls")
	case (kafka.TLS.CertFile == "") != (kafka.TLS.KeyFile == ""):
		return errors.New("--cert-file, --key-file: want one another")
	case (kafka.SASL.Username == "") != (kafka.SASL.PasswordFile == ""):
		return errors.New("--username, --password-file: want one another")
	case (registry.Username == "") != (registry.PasswordFile == ""):
		return errors.New("--registry-username, --registry-password-file: want one another")
	}
	if u, err := url.Parse(registry.URL.Reveal()); err != nil || u.User != nil {
		return errors.New("--registry: must be an address without a user or password, which have --registry-username and --registry-password-file")
	}
	return f.sound()
}

// sound refuses what the configuration that is to be written would be refused for,
// before a secret is sent.
func (f *initFlags) sound() error {
	f.at.Registry.AllowPlaintext = f.at.Kafka.SASL.AllowPlaintext && strings.HasPrefix(f.at.Registry.URL.Reveal(), "http://") && f.at.Registry.Username != ""
	flags := map[string]string{ // by the key that each stands for
		"kafka.brokers": "--brokers", "kafka.tls": "--tls", "kafka.sasl.allowPlaintext": "--allow-plaintext",
		"kafka.sasl.oauth": "--token-url and what belongs to it", "kafka.sasl.oauth.extensions": "--extension",
		"schemaRegistry.url": "--registry", "schemaRegistry.allowPlaintext": "--allow-plaintext",
	}
	for _, text := range f.texts() {
		flags[text.key] = "--" + text.flag
	}
	var all []string
	for _, p := range config.Way(f.at.Kafka, f.at.Registry, flags) {
		said := p.Path + ": " + p.Message
		if p.Hint != "" {
			said += "; " + p.Hint
		}
		all = append(all, said)
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "\n"))
}

// repeated is a text that is there twice, "" if none is.
func repeated(texts []string) string {
	for i, text := range texts {
		if slices.Contains(texts[:i], text) {
			return text
		}
	}
	return ""
}

func next(file, text string) string {
	lines := strings.Count(text, "DECIDE") - 1 // the head speaks of them too
	etls := ""
	if strings.Contains(text, "\n    imports:\n") {
		etls = "  feedsink etl create -c %[1]s --mapping NAME   # for each mapping with imports: prints the lines to put there\n"
	}
	return fmt.Sprintf("wrote %[1]s; %[2]d of its lines %[3]s DECIDE\n\nthen:\n"+
		"  feedsink plan -c %[1]s --show      # what would go out; needs no service yet\n"+etls+
		"  feedsink check -c %[1]s --online   # whether it can work\n"+
		"  feedsink run -c %[1]s\n\nto try it without a service:\n"+
		"  feedsink dev --service-only -c %[1]s   # plays one at http://localhost:8090 that has the file's tables; prints an API key\n"+
		"  mkdir secrets && echo KEY > secrets/api-key\n"+
		"  export FEEDSINK_SECRETS=$PWD/secrets FEEDSINK_SPOOL=$PWD/spool   # where the file looks for the key, and keeps rows\n",
		file, lines, words.Plural(lines, "says", "say"))
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: is there already, and init writes over nothing; name another file with --out", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
