// SPDX-License-Identifier: Apache-2.0

// Package dockerfile reads the last stage of a Dockerfile that only copies files, makes directories and sets what the
// image is run with.
// So one file says what a runtime image is, whether it is made by a container engine or without one.
package dockerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Stage is the last stage of a Dockerfile.
type Stage struct {
	From       string // image reference, with the defaults of build arguments put in
	Env        map[string]string
	Labels     map[string]string
	User       string
	WorkDir    string
	Entrypoint []string
	Cmd        []string
	Copies     []Copy
	Dirs       []string // directories made by RUN mkdir -p, absolute
}

// Copy is one source of a COPY instruction.
type Copy struct {
	Stage  string // stage that it is from; empty for the build context
	Source string
	Target string // path of the file or directory in the image, absolute
	Mode   string // octal; empty keeps the source's
}

var errNeedsEngine = errors.New(
	"the last stage may only set things, copy files and run mkdir -p, so that no container engine is needed")

// Parse reads a Dockerfile. In the last stage it refuses every instruction that it cannot follow, every RUN but mkdir
// above all; the stages before it are for container engines alone.
func Parse(text string) (*Stage, error) {
	args := map[string]string{}
	var stage *Stage
	var pending error
	for _, line := range logicalLines(text) {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		instruction := strings.ToUpper(word)
		switch {
		case instruction == "FROM":
			stage, pending = newStage(rest, args), nil
		case instruction == "ARG" && stage == nil:
			name, value, _ := strings.Cut(rest, "=")
			args[name] = unquote(value)
		case stage != nil && pending == nil:
			// An error counts only in the last stage, which is known at the end.
			if err := stage.apply(instruction, rest); err != nil {
				pending = fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	if stage == nil {
		return nil, errors.New("there is no FROM")
	}
	return stage, pending
}

func newStage(from string, args map[string]string) *Stage {
	fields := slices.DeleteFunc(strings.Fields(from), func(f string) bool { return strings.HasPrefix(f, "--") })
	stage := &Stage{Env: map[string]string{}, Labels: map[string]string{}}
	if len(fields) > 0 {
		stage.From = expand(fields[0], args)
	}
	return stage
}

func (s *Stage) apply(instruction, rest string) (err error) {
	switch instruction {
	case "ENV":
		return addPairs(s.Env, rest)
	case "LABEL":
		return addPairs(s.Labels, rest)
	case "USER":
		s.User = rest
	case "WORKDIR":
		s.WorkDir = path.Join("/", s.WorkDir, rest)
		if path.IsAbs(rest) {
			s.WorkDir = path.Clean(rest)
		}
	case "ENTRYPOINT":
		s.Entrypoint, err = commandLine(rest)
	case "CMD":
		s.Cmd, err = commandLine(rest)
	case "COPY":
		return s.copy(rest)
	case "RUN":
		return s.mkdir(rest)
	case "EXPOSE", "STOPSIGNAL", "HEALTHCHECK":
		// The watchdog decides these; a cluster does not read them.
	default:
		return errNeedsEngine
	}
	return err
}

// mkdir takes the one command that needs no container engine.
func (s *Stage) mkdir(command string) error {
	words, err := split(command)
	if err != nil {
		return err
	}
	if len(words) < 3 || words[0] != "mkdir" || words[1] != "-p" {
		return errNeedsEngine
	}
	for _, dir := range words[2:] {
		if !path.IsAbs(dir) || strings.ContainsAny(dir, ";&|<>*?`") {
			return errNeedsEngine
		}
		s.Dirs = append(s.Dirs, path.Clean(dir))
	}
	return nil
}

// copy adds one Copy for each source.
func (s *Stage) copy(rest string) error {
	var from, mode string
	fields := strings.Fields(rest)
	for len(fields) > 0 && strings.HasPrefix(fields[0], "--") {
		option, value, _ := strings.Cut(fields[0], "=")
		switch option {
		case "--from":
			from = value
		case "--chmod":
			mode = value
		case "--link":
		default:
			return fmt.Errorf("option %s is not known", option)
		}
		fields = fields[1:]
	}
	if len(fields) < 2 || strings.HasPrefix(fields[0], "[") {
		return errors.New("it needs sources and a target, written as words")
	}
	sources, target := fields[:len(fields)-1], fields[len(fields)-1]
	isDir := strings.HasSuffix(target, "/") || len(sources) > 1
	if !path.IsAbs(target) {
		target = path.Join("/", s.WorkDir, target)
	}
	for _, source := range sources {
		to := path.Clean(target)
		if isDir {
			to = path.Join(to, path.Base(source))
		}
		s.Copies = append(s.Copies, Copy{Stage: from, Source: source, Target: to, Mode: mode})
	}
	return nil
}

func commandLine(text string) ([]string, error) {
	var words []string
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		return nil, fmt.Errorf("it must be a JSON list, for there may be no shell: %w", err)
	}
	return words, nil
}
