package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Execution is an import that the service accepted.
type Execution struct {
	// ID asks for its results; "" if the answer did not tell, and then its end
	// becomes known by its webhook only.
	ID string
}

// Trigger pushes a file to a triggered ETL (operation 10). zone is the calendar
// that the table's imports of the day follow, nil is UTC: it decides which
// refusals are NoSlot.
//
// Of an Error that is Unknown nobody can tell whether an execution was started.
// An upload that was cut before its last byte has started none.
func (c *Client) Trigger(ctx context.Context, etl string, file File, zone *time.Location) (Execution, error) {
	got, err := c.send(ctx, &call{
		op: OpTrigger, method: http.MethodPost, target: etl, file: newUpload(file, nil), zone: zone,
	}, c.imports+"/etls/", etl, "/trigger-execution")
	return execution(got, err)
}

// TriggerRemote starts a triggered ETL that fetches its file from a remote
// location (operation 10 without a file); zone as for Trigger.
func (c *Client) TriggerRemote(ctx context.Context, etl string, zone *time.Location) (Execution, error) {
	got, err := c.send(ctx, &call{op: OpTrigger, method: http.MethodPost, target: etl, zone: zone},
		c.imports+"/etls/", etl, "/trigger-execution")
	return execution(got, err)
}

// OneShot pushes a file together with its definition (operation 8, form B), in
// which Remote is nil; zone as for Trigger. A definition that Validate objects to
// is Rejected without a call.
func (c *Client) OneShot(ctx context.Context, definition OneShotETL, file File, zone *time.Location) (Execution, error) {
	if definition.Remote != nil {
		return Execution{}, unsendable(OpOneShot, errWhichFile)
	}
	body, err := sendable(OpOneShot, definition)
	if err != nil {
		return Execution{}, err
	}
	got, err := c.send(ctx, &call{
		op: OpOneShot, method: http.MethodPost, file: newUpload(file, body), zone: zone,
	}, c.imports+"/etl-executions")
	return execution(got, err)
}

// OneShotRemote launches an import whose definition names a file at a remote
// location (operation 8, form A); zone as for Trigger. A definition that
// Validate objects to is Rejected without a call.
func (c *Client) OneShotRemote(ctx context.Context, definition OneShotETL, zone *time.Location) (Execution, error) {
	if definition.Remote == nil {
		return Execution{}, unsendable(OpOneShot, errWhichFile)
	}
	body, err := sendable(OpOneShot, definition)
	if err != nil {
		return Execution{}, err
	}
	got, err := c.send(ctx, &call{op: OpOneShot, method: http.MethodPost, body: JSON(body), zone: zone},
		c.imports+"/etl-executions")
	return execution(got, err)
}

var errWhichFile = errors.New("fileTransfer.input: the file comes with the call or from a remote location, one of the two")

func execution(got answer, err error) (Execution, error) {
	if err != nil {
		return Execution{}, err
	}
	return Execution{ID: identifier(got.body, got.header, executionNames)}, nil
}

// Results asks how far an execution is (operation 11).
func (c *Client) Results(ctx context.Context, id string) (Results, error) {
	got, err := c.send(ctx, &call{op: OpResults, method: http.MethodGet, target: id},
		c.imports+"/etl-executions/", id, "/integration-results")
	if err != nil {
		return Results{}, err
	}
	r, err := parseResults(got.body)
	if err != nil {
		return Results{}, unreadable(OpResults, id, got, err)
	}
	return r, nil
}

// CreateETL stores the definition of a triggered ETL and returns its id
// (operation 9), "" if the answer does not tell. A definition that Validate
// objects to is Rejected without a call.
func (c *Client) CreateETL(ctx context.Context, definition TriggeredETL) (string, error) {
	body, err := sendable(OpCreateETL, definition)
	if err != nil {
		return "", err
	}
	got, err := c.send(ctx, &call{op: OpCreateETL, method: http.MethodPost, body: JSON(body)}, c.imports+"/etls")
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, etlNames), nil
}

// sendable is a definition as it is sent, or what Validate says against it.
func sendable(op Op, definition interface{ Validate() error }) ([]byte, error) {
	if err := definition.Validate(); err != nil {
		return nil, unsendable(op, err)
	}
	body, err := json.Marshal(definition)
	return body, unsendable(op, err)
}
