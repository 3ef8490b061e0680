// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSH serves the repositories in a folder to whoever has the key.
type SSH struct {
	// Address is host:port.
	Address string
	// Identity is the private key that is let in, in PEM form.
	Identity []byte
	// KnownHosts is a line for a file of known hosts, with the server's key.
	KnownHosts []byte

	git, root string
	config    *ssh.ServerConfig
}

// Key returns a new private key in PEM form, locked when there is a passphrase, and its public half.
func Key(t testing.TB, passphrase string) ([]byte, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

// StartSSH starts a server for the repositories in root at the address, until the test ends. Key's passphrase locks the
// private key that is let in.
func StartSSH(t testing.TB, address, root, passphrase string) *SSH {
	t.Helper()
	identity, client := Key(t, passphrase)
	_, host := Key(t, "")
	s := &SSH{Identity: identity, git: Program(t), root: root, config: &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) {
				return nil, errors.New("unknown key")
			}
			return &ssh.Permissions{}, nil
		},
	}}
	s.config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.Address = listener.Addr().String()
	s.KnownHosts = []byte(knownhosts.Line([]string{s.Address}, host.PublicKey()) + "\n")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// URL returns the address of a repository.
func (s *SSH) URL(name string) string { return "ssh://git@" + s.Address + "/" + name }

func (s *SSH) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests)
	}
}

func (s *SSH) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		var command struct{ Line string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &command) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		code := s.run(channel, command.Line)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}

// run starts git-upload-pack, the one program that a reader needs.
func (s *SSH) run(channel ssh.Channel, line string) uint32 {
	program, path, _ := strings.Cut(line, " ")
	path = filepath.Join(s.root, filepath.Clean("/"+strings.Trim(path, "'")))
	if program != "git-upload-pack" {
		_, _ = fmt.Fprintln(channel.Stderr(), "not allowed")
		return 1
	}
	cmd := exec.CommandContext(context.Background(), s.git, "upload-pack", path)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(s.root), channel, channel.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := channel.Read(buffer)
			if _, writeErr := in.Write(buffer[:n]); err != nil || writeErr != nil {
				_ = in.Close()
				return
			}
		}
	}()
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}
