package feed

import (
	"context"
	"io"
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

// OneShot pushes a file together with its definition, JSON (operation 8, form
// B); zone as for Trigger.
func (c *Client) OneShot(ctx context.Context, definition []byte, file File, zone *time.Location) (Execution, error) {
	got, err := c.send(ctx, &call{
		op: OpOneShot, method: http.MethodPost, file: newUpload(file, definition), zone: zone,
	}, c.imports+"/etl-executions")
	return execution(got, err)
}

// OneShotRemote launches an import whose definition, JSON, names a file at a
// remote location (operation 8, form A); zone as for Trigger.
func (c *Client) OneShotRemote(ctx context.Context, definition []byte, zone *time.Location) (Execution, error) {
	got, err := c.send(ctx, &call{op: OpOneShot, method: http.MethodPost, body: definition, zone: zone},
		c.imports+"/etl-executions")
	return execution(got, err)
}

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

// Output says what came with an execution's output files.
type Output struct {
	ContentType string // as the service names it; the content itself tells more
	Bytes       int64
}

// OutputFiles writes the result and error files of an execution to w as they
// come (operation 12). An execution without any has none (no bytes) or is
// NotFound. After an error w may hold a beginning, and the call may be repeated
// with an emptied one.
func (c *Client) OutputFiles(ctx context.Context, id string, w io.Writer) (Output, error) {
	got, err := c.send(ctx, &call{op: OpOutputFiles, method: http.MethodGet, target: id, into: w},
		c.imports+"/etl-executions/", id, "/output-files")
	if err != nil {
		return Output{}, err
	}
	return Output{ContentType: got.header.Get("Content-Type"), Bytes: got.written}, nil
}

// CreateETL stores the definition of a triggered ETL, JSON, and returns its id
// (operation 9), "" if the answer does not tell.
func (c *Client) CreateETL(ctx context.Context, definition []byte) (string, error) {
	got, err := c.send(ctx, &call{op: OpCreateETL, method: http.MethodPost, body: definition}, c.imports+"/etls")
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, etlNames), nil
}

// CreateWebhook subscribes to the end of executions, body JSON, and returns the
// subscription's id (operation 13), "" if the answer does not tell.
func (c *Client) CreateWebhook(ctx context.Context, body []byte) (string, error) {
	got, err := c.send(ctx, &call{op: OpCreateWebhook, method: http.MethodPost, body: body},
		c.webhooks+"/webhookSubscription")
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, webhookNames), nil
}
