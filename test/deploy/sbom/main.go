// Command sbom writes the bill of materials of a Go binary as CycloneDX JSON: what
// the linker put in it, as the binary itself tells, not what a source tree may
// need. `make sbom` runs it. It knows modules. It knows nothing of licences or of
// what surrounds the binary.
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(to io.Writer, binary, version string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read %s: %w", binary, err)
	}
	return cyclonedx.NewBOMEncoder(to, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(materials(info, version))
}

// materials lists the modules of the binary and Go's own library. It carries no
// time and no serial number: the same binary has the same list. The version is
// given, because a build that leaves its machine out leaves its flags out, too.
func materials(info *debug.BuildInfo, version string) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, version)
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		parts = append(parts, c)
	}
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].BOMRef
	}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{Type: kind, Name: path, Version: version, PackageURL: url, BOMRef: url}
}
