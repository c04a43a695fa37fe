package credentials

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxText bounds what is read of a file or an answer.
const maxText = 1 << 20

// sharedFile is where AWS's tools keep keys.
func sharedFile() string {
	if file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE"); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // there is nobody whose file it could be
	}
	return filepath.Join(home, ".aws", "credentials")
}

// shared reads a profile's keys from a shared credentials file.
func shared(file, profile string) (keys, error) {
	text, err := contents(file)
	if err != nil {
		return keys{}, err
	}
	found, ok := section(text, profile)
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

func contents(file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxText:
		return "", fmt.Errorf("%s: not a regular file of at most %d MiB", file, maxText>>20)
	}
	text, err := os.ReadFile(file)
	return string(text), err
}
