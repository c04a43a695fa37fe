// Package config reads the configuration file: one YAML document, its
// environment variables, its secret files, its defaults and its rules. It
// answers either with a Config that can work or with every mistake of the file
// at once, each with its line, its key, the rule it breaks and a hint.
//
// It knows keys, positions and rules. It connects to nothing: whether brokers,
// topics and the service are there is seen when they are used.
package config
