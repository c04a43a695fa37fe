// Command manifests writes the plain manifests that are rendered from the Helm
// chart: `make manifests`. It knows where they go, and nothing of what is in them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	deploy "github.com/feedsink/feedsink/test/deploy"
)

func main() {
	if err := write("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := deploy.Manifests(root)
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
