// Package uniq has IDs from agents of UniqGenerator, for Go 1.19 and later, with nothing but the standard library.
package uniq

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrRefused says that no agent would answer differently: the request is wrong, or there is no such name.
var ErrRefused = errors.New("refused")

const timeout, patience = 2 * time.Second, 15 * time.Second // of one agent, of one batch

// Uniq has IDs of one name, fetched in batches before they are used up, from the next agent when one fails. Goroutines share it.
type Uniq struct {
	agents []string // HOST:PORT; the first one is asked first
	path   string
	batch  int
	client http.Client
	ids    chan string
	failed chan error
}

// New begins to fetch batches, for as long as the program runs; a path is /uniq64 or /id/NAME.
func New(agents []string, path string, batch int) *Uniq {
	u := &Uniq{agents: append([]string(nil), agents...), path: fmt.Sprintf("%s?n=%d", path, batch), batch: batch}
	u.client = http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	u.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u.ids, u.failed = make(chan string, batch/2), make(chan error)
	go u.fetch()
	return u
}

// Get is the next ID. If there is none it waits for an agent, as long as the patience lasts.
func (u *Uniq) Get() (string, error) {
	select {
	case id := <-u.ids:
		return id, nil
	default: // only then
	}
	select {
	case id := <-u.ids:
		return id, nil
	case err := <-u.failed:
		return "", err
	}
}

// fetch asks for the next batch when half of one is left.
func (u *Uniq) fetch() {
	for {
		ids, err := u.ask()
		for _, id := range ids {
			u.ids <- id
		}
		for over := time.After(time.Second); err != nil; {
			select {
			case u.failed <- err: // to each call that waits
			case <-over:
				err = nil
			}
		}
	}
}

// ask gets a batch from the first agent that gives one: each is asked in turn, and again after a pause that grows.
func (u *Uniq) ask() ([]string, error) {
	end, err := time.Now().Add(patience), errors.New("no agents are named")
	for pause := 50 * time.Millisecond; ; {
		for range u.agents {
			var ids []string
			if ids, err = u.askOne(u.agents[0]); err == nil || errors.Is(err, ErrRefused) {
				return ids, err
			}
			u.agents = append(u.agents[1:], u.agents[0]) // it is asked last from now on
		}
		if time.Now().After(end) {
			return nil, err
		}
		time.Sleep(pause)
		if pause *= 2; pause > time.Second {
			pause = time.Second
		}
	}
}

func (u *Uniq) askOne(agent string) ([]string, error) {
	// POST, so that nothing on the way answers from a cache. Of an answer that was cut off no ID is used.
	answer, err := u.client.Post("http://"+agent+u.path, "", nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ids := strings.Fields(string(text))
	switch status := answer.StatusCode; {
	case err != nil:
		return nil, err
	case status == 400 || status == 404 || status == 405:
		return nil, fmt.Errorf("%w: %s", ErrRefused, text)
	case status != 200 || !strings.HasSuffix(string(text), "\n") || len(ids) != u.batch:
		return nil, fmt.Errorf("%s: %s", agent, text)
	}
	return ids, nil
}
