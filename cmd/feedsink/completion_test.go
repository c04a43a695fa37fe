package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestWordsThatAreNoCommandAreWrongUsage(t *testing.T) {
	d := newHost(t)
	for _, line := range []string{"nosuch", "help nosuch", "help imports nosuch", "imports nosuch", "completion tcsh", "completion bash now"} {
		if code, _, failed := d.run(line); code != exitUsage || !strings.Contains(failed, "unknown command") {
			t.Errorf("%s: got code %d, %q, want %d and that it is unknown", line, code, failed, exitUsage)
		}
	}
	for _, line := range []string{"help", "help imports list", "completion"} {
		if code, out, failed := d.run(line); code != exitFine || out == "" {
			t.Errorf("%s: got code %d, %q, want help", line, code, failed)
		}
	}
}

func TestCompletionKnowsMappingsAndFixedValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feedsink.yaml")
	if err := os.WriteFile(file, []byte(servedConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"imports show -c FILE --mapping ":          "customers orders",
		"dlq list -c FILE --mapping customers,":    "customers,customers customers,orders",
		"etl create -c FILE --mapping ":            "customers orders",
		"imports show -c FILE.none --mapping ":     "",
		"record get -c FILE --table ":              "orders",
		"profile delete -c FILE --table ":          "customers",
		"run -c FILE --lane ":                      "all immediate batch",
		"pause -c FILE --lane ":                    "immediate batch",
		"resume -c FILE --lane ":                   "immediate batch",
		"dlq list -c FILE --topic ":                "crm shop",
		"webhook create -c FILE --etl 77,":         "77,77",
		"init --topic ":                            "",
		"test -c FILE ":                            "yaml yml", // the endings of files
		"plan -c FILE -o ":                         "text json",
		"dlq replay -c FILE --reason value,":       "value,decode value,value value,no_id value,conflict value,not_found value,rejected value,import_row",
		"dlq discard -c FILE --code ":              "decode value no_id conflict not_found rejected import_row",
		"dlq discard -c FILE --reason ":            "",
		"import -c FILE --op ":                     "upsert patch merge create delete",
		"init --sasl ":                             "PLAIN SCRAM-SHA-256 SCRAM-SHA-512 OAUTHBEARER AWS_MSK_IAM",
		"log-level -c FILE ":                       "debug info warn error",
		"dlq list -c FILE --log-level=none --by s": "", // there is no such flag
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		words := strings.Split(strings.ReplaceAll(line, "FILE", file), " ")
		root.SetArgs(append([]string{"__complete"}, words...))
		_ = root.Execute() // what it offers is judged
		offered := strings.Fields(out.String())
		if n := len(offered); n > 0 {
			offered = offered[:n-1] // the directive
		}
		if got := strings.Join(offered, " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	flag, code, err := command(t, "--version")
	if code != exitFine || err != nil {
		t.Fatalf("got code %d, %v, want %d", code, err, exitFine)
	}
	if word, _, _ := command(t, "version"); flag != word || !strings.HasPrefix(flag, "feedsink ") {
		t.Errorf("--version: got %q, want what version prints: %q", flag, word)
	}
}

// TestHelpNamesEachDefaultOnce: a flag without one shows none.
func TestHelpNamesEachDefaultOnce(t *testing.T) {
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			if strings.Count(line, "(default") > 1 || strings.Contains(line, "(default [])") {
				t.Errorf("%s: got %q, want one default, or none", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(newRoot())
}

// TestOnlyFilesAreCompletedAsFiles: the shell offers those of its directory where nothing
// else is said.
func TestOnlyFilesAreCompletedAsFiles(t *testing.T) {
	files := map[string]bool{"config": true, "dir": true, "file": true, "out": true}
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" || files[f.Name] || strings.HasSuffix(f.Name, "-file") {
				return
			}
			of, told := cmd.GetFlagCompletionFunc(f.Name)
			if !told {
				t.Errorf("%s --%s: files are offered", cmd.CommandPath(), f.Name)
				return
			}
			if _, directive := of(cmd, nil, ""); directive&cobra.ShellCompDirectiveNoFileComp == 0 {
				t.Errorf("%s --%s: files are offered", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(newRoot())
}
