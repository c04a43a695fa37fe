package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/feedsink/feedsink/connector/security"
)

func (r *rules) certificates(path string, c Certificates) {
	for _, wrong := range security.TLSFiles(c).Check() {
		if wrong.File == "" {
			r.breaks(path+"."+wrong.Key, wrong.Err.Error(), "a certificate needs both files")
			continue
		}
		r.badFile(path+"."+wrong.Key, wrong.File, wrong.Err)
	}
}

// secretFile checks that a secret can be read now.
func (r *rules) secretFile(path, file string) {
	if _, err := SecretFile(file)(); err != nil {
		r.badFile(path, file, err)
	}
}

// badFile reports a file that cannot be used. What does not look like a path, or leads
// nowhere, is not shown: it may be the content that belongs into the file.
func (r *rules) badFile(path, file string, err error) {
	if strings.Contains(file, "\n") || !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, ".") {
		r.breaks(path, "names no readable file", "write a path such as /run/secrets/api-key, not the content")
		return
	}
	if r.noSecrets {
		return
	}
	cause, ok := errors.AsType[*fs.PathError](err)
	if found := there(file); ok && found != file && (found != filepath.Dir(file) || strings.LastIndexByte(file, '/') <= 0) {
		r.breaks(path, "names no readable file: "+cause.Err.Error()+", below "+found, "create the folder and the file, or write a path, not the content")
		return
	}
	hint := "correct the path, or the file"
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "make the file readable for the user that runs feedsink"
	case errors.Is(err, fs.ErrNotExist):
		hint = "create the file, or correct the path"
	}
	r.breaks(path, err.Error(), hint)
}

// there is the part of a path that exists.
func there(file string) string {
	for {
		if _, err := os.Lstat(file); err == nil || file == filepath.Dir(file) {
			return file
		}
		file = filepath.Dir(file)
	}
}
