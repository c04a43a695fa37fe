package receipt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
)

// cmac is AES-CMAC (RFC 4493), a keyed hash that takes a quarter of HMAC-SHA-256's time: that
// alone was a tenth of what a row of a file costs. It is for one goroutine at a time.
type cmac struct {
	block         cipher.Block
	whole, padded [aes.BlockSize]byte // what the last block is mixed with
	state         [aes.BlockSize]byte
}

// newCMAC makes the key of a secret of any length.
func newCMAC(secret string) *cmac {
	key := sha256.Sum256([]byte(secret))
	return keyedCMAC(key[:aes.BlockSize])
}

func keyedCMAC(key []byte) *cmac {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // of the key's length, which is ours
	}
	c := &cmac{block: block}
	block.Encrypt(c.whole[:], c.whole[:])
	double(&c.whole)
	c.padded = c.whole
	double(&c.padded)
	return c
}

// double doubles in the field of 2^128 elements.
func double(v *[aes.BlockSize]byte) {
	carry := v[0] >> 7
	for i := range v[:len(v)-1] {
		v[i] = v[i]<<1 | v[i+1]>>7
	}
	v[len(v)-1] = v[len(v)-1]<<1 ^ carry*0x87
}

// sum is the hash of a message.
func (c *cmac) sum(message string) [aes.BlockSize]byte {
	var block [aes.BlockSize]byte
	clear(c.state[:])
	for ; len(message) > aes.BlockSize; message = message[aes.BlockSize:] {
		copy(block[:], message)
		subtle.XORBytes(c.state[:], c.state[:], block[:])
		c.block.Encrypt(c.state[:], c.state[:])
	}
	clear(block[:])
	last := &c.whole
	if n := copy(block[:], message); n < aes.BlockSize {
		block[n], last = 0x80, &c.padded
	}
	subtle.XORBytes(c.state[:], c.state[:], block[:])
	subtle.XORBytes(c.state[:], c.state[:], last[:])
	c.block.Encrypt(c.state[:], c.state[:])
	return c.state
}
