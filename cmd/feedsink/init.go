package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/setup"
)

func newInit() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init --brokers HOST:PORT --topic TOPIC",
		Short: "Look at a topic and write a commented configuration to begin with",
		Long: "init reads the topic's last records, outside of any consumer group, and writes a configuration for it: canonical\n" +
			"events and Debezium's are recognised, of everything else fields, types and key are guessed. The lines with DECIDE\n" +
			"are for you. It holds names, and no values, of the records. How it got in, TLS and SASL, is written down too;\n" +
			"passwords, client secrets and tokens stay in their files, and AWS's keys where AWS_MSK_IAM finds them: environment\n" +
			"variables, a web identity, the shared file or an agent.",
		Example: "  feedsink init --brokers kafka:9092 --topic crm.customers --out feedsink.yaml\n" +
			"  feedsink init --brokers kafka:9092 --topic crm.customers --registry http://registry:8081\n" +
			"  feedsink init --brokers kafka:9093 --tls --ca-file ca.pem --sasl SCRAM-SHA-512 --username feedsink \\\n" +
			"    --password-file kafka-password --topic shop.orders --custom-table orders\n" +
			"  feedsink init --brokers kafka:9093 --tls --sasl OAUTHBEARER --token-url https://login.example.com/oauth2/token \\\n" +
			"    --client-id feedsink --client-secret-file client-secret --scope kafka --topic shop.orders\n" +
			"  feedsink init --brokers b-1.example.kafka.eu-west-3.amazonaws.com:9098 --tls --sasl AWS_MSK_IAM --topic shop.orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.validate(); err != nil {
				return &usageError{err}
			}
			text, err := ops.Guess(cmd.Context(), flags.at, flags.limit)
			if err != nil {
				return err
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

// initFlags say where the topic is and what is known of its table.
type initFlags struct {
	at    setup.Place
	out   string
	limit int64
}

func (f *initFlags) register(cmd *cobra.Command) {
	f.registerKafka(cmd)
	f.registerRegistry(cmd)
	cmd.Flags().StringVar(&f.at.ProfileTable, "profile-table", "", "name of the profile table that it feeds")
	cmd.Flags().StringVar(&f.at.CustomTable, "custom-table", "", "name of the custom table that it feeds")
	cmd.Flags().StringVar(&f.out, "out", "", "file to write, which must not be there yet (default: standard output)")
	cmd.Flags().Int64Var(&f.limit, "limit", 1000, "how many records to look at, the last ones")
}

func (f *initFlags) registerKafka(cmd *cobra.Command) {
	kafka, oauth := &f.at.Kafka, &f.at.Kafka.SASL.OAuth
	cmd.Flags().StringSliceVar(&kafka.Brokers, "brokers", nil, "brokers to ask, host:port")
	cmd.Flags().StringVar(&f.at.Topic, "topic", "", "topic to look at")
	cmd.Flags().BoolVar(&kafka.TLS.Enabled, "tls", false, "reach the brokers by TLS")
	cmd.Flags().StringVar(&kafka.TLS.CAFile, "ca-file", "", "PEM file of the authorities that brokers' certificates are of (default: the system's)")
	cmd.Flags().StringVar(&kafka.TLS.CertFile, "cert-file", "", "PEM file of the client's certificate")
	cmd.Flags().StringVar(&kafka.TLS.KeyFile, "key-file", "", "PEM file of its key")
	cmd.Flags().StringVar(&kafka.SASL.Mechanism, "sasl", "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM")
	cmd.Flags().StringVar(&kafka.SASL.Username, "username", "", "user at the brokers")
	cmd.Flags().StringVar(&kafka.SASL.PasswordFile, "password-file", "", "file with the password")
	cmd.Flags().StringVar(&oauth.TokenURL, "token-url", "", "OAUTHBEARER: where the OAuth 2.0 server gives tokens")
	cmd.Flags().StringVar(&oauth.ClientID, "client-id", "", "OAUTHBEARER: who asks for them")
	cmd.Flags().StringVar(&oauth.ClientSecretFile, "client-secret-file", "", "OAUTHBEARER: file with the client's secret")
	cmd.Flags().StringVar(&oauth.Scope, "scope", "", "OAUTHBEARER: what to ask for, several with spaces between them")
	cmd.Flags().StringVar(&oauth.TLS.CAFile, "token-ca-file", "", "OAUTHBEARER: PEM file of the authorities that the server's certificate is of (default: the system's)")
	cmd.Flags().StringVar(&oauth.TokenFile, "token-file", "", "OAUTHBEARER: file with a token that something else renews, instead of a server")
	cmd.Flags().StringArrayVar(&oauth.Extensions, "extension", nil, "OAUTHBEARER: name=value to send with the token, once for each")
	cmd.Flags().BoolVar(&kafka.SASL.AllowPlaintext, "allow-plaintext", false, "send secrets without encryption, where nobody can listen in between")
}

func (f *initFlags) registerRegistry(cmd *cobra.Command) {
	registry := &f.at.Registry
	cmd.Flags().Func("registry", "address of the schema registry, if values are written through one", func(given string) error {
		registry.URL = config.NewAddress(given)
		return nil
	})
	cmd.Flags().StringVar(&registry.Username, "registry-username", "", "user at the schema registry")
	cmd.Flags().StringVar(&registry.PasswordFile, "registry-password-file", "", "file with the password")
	cmd.Flags().StringVar(&registry.TLS.CAFile, "registry-ca-file", "", "PEM file of the authorities that its certificate is of (default: the system's)")
}

func (f *initFlags) validate() error {
	kafka, registry := f.at.Kafka, f.at.Registry
	switch at := f.at; {
	case len(kafka.Brokers) == 0:
		return errors.New("--brokers: name at least one broker, host:port")
	case at.Topic == "":
		return errors.New("--topic: name the topic")
	case at.ProfileTable != "" && at.CustomTable != "":
		return errors.New("--profile-table, --custom-table: a topic is mapped to one table")
	case f.limit < 1:
		return errors.New("--limit: must be above 0")
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

// flagOf is the flag that stands for a key of the configuration.
var flagOf = map[string]string{
	"kafka.brokers": "--brokers", "kafka.tls": "--tls", "kafka.tls.caFile": "--ca-file", "kafka.tls.certFile": "--cert-file", "kafka.tls.keyFile": "--key-file",
	"kafka.sasl.mechanism": "--sasl", "kafka.sasl.username": "--username", "kafka.sasl.passwordFile": "--password-file", "kafka.sasl.allowPlaintext": "--allow-plaintext",
	"kafka.sasl.oauth": "--token-url and what belongs to it", "kafka.sasl.oauth.tokenURL": "--token-url", "kafka.sasl.oauth.tls.caFile": "--token-ca-file",
	"kafka.sasl.oauth.clientId": "--client-id", "kafka.sasl.oauth.clientSecretFile": "--client-secret-file",
	"kafka.sasl.oauth.tokenFile": "--token-file", "kafka.sasl.oauth.extensions": "--extension",
	"schemaRegistry.url": "--registry", "schemaRegistry.username": "--registry-username", "schemaRegistry.passwordFile": "--registry-password-file",
	"schemaRegistry.tls.caFile": "--registry-ca-file", "schemaRegistry.allowPlaintext": "--allow-plaintext",
}

// sound refuses what the configuration that is to be written would be refused for,
// before a secret is sent.
func (f *initFlags) sound() error {
	f.at.Registry.AllowPlaintext = f.at.Kafka.SASL.AllowPlaintext && strings.HasPrefix(f.at.Registry.URL.Reveal(), "http://") && f.at.Registry.Username != ""
	var all []string
	for _, p := range config.Way(f.at.Kafka, f.at.Registry, flagOf) {
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

// next says what to do with the file.
func next(file, text string) string {
	return fmt.Sprintf("wrote %s; %d of its lines say DECIDE\n\nthen:\n"+
		"  feedsink plan -c %[1]s --show      # what would go out\n"+
		"  feedsink check -c %[1]s --online   # whether it can work\n"+
		"  feedsink run -c %[1]s\n", file, strings.Count(text, "DECIDE")-1) // the head speaks of them too
}

// writeNew never writes over what somebody decided.
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
