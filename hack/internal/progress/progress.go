// SPDX-License-Identifier: Apache-2.0

// Package progress shows the steps of a long command: what runs, for how long, and that it is still alive.
package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// announceAfter is how long a step stays silent; most steps end sooner and need one line only.
	announceAfter = 2 * time.Second
	// sayEvery is the pause between two lines of a long step.
	sayEvery = 10 * time.Second
)

// Say replaces the line that tells what a step is doing right now. It may be called often, from any goroutine.
type Say func(format string, args ...any)

// Printer writes steps to a writer. Every line starts with the seconds since the printer was made.
type Printer struct {
	w   io.Writer
	now func() time.Time

	mu    sync.Mutex
	start time.Time
}

// envStart hands the start of a command's clock on to the commands that it runs, in milliseconds since 1970.
const envStart = "SLESS_PROGRESS_START"

// New makes a printer that writes to w and reads the clock from now. Below another command the clock is that command's.
func New(w io.Writer, now func() time.Time) *Printer {
	start := now()
	if began, err := strconv.ParseInt(os.Getenv(envStart), 10, 64); err == nil {
		start = time.UnixMilli(began)
	}
	return &Printer{w: w, now: now, start: start}
}

// Env returns the variable with which commands that are run go on with this printer's clock.
func (p *Printer) Env() string {
	return envStart + "=" + strconv.FormatInt(p.start.UnixMilli(), 10)
}

// Printf writes one line outside of steps.
func (p *Printer) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(fmt.Sprintf(format, args...))
}

func (p *Printer) line(text string) {
	_, _ = fmt.Fprintf(p.w, "[%6.1fs] %s\n", p.now().Sub(p.start).Seconds(), text)
}

// Step runs one step. The result is a few words for the step's last line, such as "3 loaded, 2 present"; it may be
// empty. While the step runs it is announced once, and from then on the last line said is shown every ten seconds.
// The error comes back with the step's title in front.
func (p *Printer) Step(title string, run func(say Say) (result string, err error)) error {
	begin := p.now()
	last := &lastLine{}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		p.watch(title, last, done)
	}()
	result, err := run(last.set)
	close(done)
	<-finished

	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.now().Sub(begin)
	switch {
	case err != nil:
		p.line(fmt.Sprintf("%s: failed (%.1fs)", title, took.Seconds()))
		return fmt.Errorf("%s: %w", title, err)
	case result != "":
		p.line(fmt.Sprintf("%s: %s (%.1fs)", title, result, took.Seconds()))
	default:
		p.line(fmt.Sprintf("%s: done (%.1fs)", title, took.Seconds()))
	}
	return nil
}

// watch announces a step that takes longer and shows that it is alive.
func (p *Printer) watch(title string, last *lastLine, done <-chan struct{}) {
	wait := announceAfter
	for first := true; ; first = false {
		select {
		case <-done:
			return
		case <-time.After(wait):
		}
		text := title + " ..."
		if said := last.get(); said != "" && !first {
			text = "  " + said
		}
		p.Printf("%s", text)
		wait = sayEvery
	}
}

type lastLine struct {
	mu   sync.Mutex
	text string
}

func (l *lastLine) set(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = fmt.Sprintf(format, args...)
}

func (l *lastLine) get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}
