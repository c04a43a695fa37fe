package main

import (
	"errors"
	"strings"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// advisedError is an error of Kafka's with what to do about it.
type advisedError struct {
	error
	advice string
}

func (e *advisedError) Error() string { return e.error.Error() + "; " + e.advice }
func (e *advisedError) Unwrap() error { return e.error }

// advised adds to an error of Kafka's, or of the way there, what to do about it, as check
// --online does. Other errors say it themselves.
func advised(err error) error {
	_, done := errors.AsType[*advisedError](err)
	failed, ofKafka := errors.AsType[*cluster.Failure](err)
	if done || !ofKafka {
		return err
	}
	advice := cluster.Advice(failed)
	if strings.Contains(err.Error(), advice) { // it is said with what else is known
		return err
	}
	return &advisedError{err, advice}
}

// asFlags turns the settings in an advice into the flags of init, which has no
// configuration yet.
func asFlags(err error) error {
	err = advised(err)
	if e, ok := errors.AsType[*advisedError](err); ok {
		e.advice = initSettings.Replace(e.advice)
	}
	return err
}

var initSettings = strings.NewReplacer(
	"set kafka.tls.enabled: false", "leave out --tls", "remove kafka.tls", "leave out --tls", "kafka.tls.enabled: true", "--tls",
	"kafka.tls.certFile and keyFile", "--cert-file and --key-file", "kafka.tls.certFile", "--cert-file", "kafka.tls.caFile", "--ca-file", "kafka.tls", "--tls",
	"remove kafka.sasl", "leave out --sasl", "kafka.sasl.mechanism", "--sasl", "kafka.sasl", "--sasl", "kafka.brokers", "--brokers",
)
